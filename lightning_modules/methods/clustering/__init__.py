"""Methods that learn clusters without labels."""
