"""models_db to schema values."""
