"""The page as files for any static host."""
