"""Options as users write them: the servers' spellings, option files, TOML files, sizes."""
