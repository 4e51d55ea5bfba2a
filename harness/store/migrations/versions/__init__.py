"""One module for each migration; a released one is never edited.

To change the tables: change `tables`, write the same change here as the next module (`revision`, `down_revision`, `upgrade`),
and set `tables.REVISION`. `pytest tests/store` fails until the two are equal on SQLite and on PostgreSQL.
"""
