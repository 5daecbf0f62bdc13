"""Row images: the values that rows events carry, decoded in columns, for MySQL and MariaDB."""
