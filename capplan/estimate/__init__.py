"""Pure estimates: acceptance, step time, memory, speculation."""
