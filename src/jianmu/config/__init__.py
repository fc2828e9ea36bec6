"""Settings as data; nothing here builds anything."""
