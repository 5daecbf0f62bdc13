"""Reading of options as users write them: the servers' spellings, option files (``my.cnf``), TOML files, sizes."""
