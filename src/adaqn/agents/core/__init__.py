"""What the families of algorithms share."""
