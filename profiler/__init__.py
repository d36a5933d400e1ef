"""The measurer: heavy libraries live inside its adapters only."""
