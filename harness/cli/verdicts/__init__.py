"""A verdict as people and CI systems read it: text, Markdown, JUnit XML. What all of them show stands in `shown`."""
