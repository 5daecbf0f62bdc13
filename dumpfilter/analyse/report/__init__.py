"""The common parts of reports: a page that needs no other file and no network, its look, its plots and its texts."""
