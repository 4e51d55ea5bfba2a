"""Migrations of the store, in order of `down_revision`."""
