"""The data source's parts: columns, options, planning, reading, streaming, filters."""
