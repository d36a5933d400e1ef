"""Adapters to what runs the models."""
