"""Components shared by the families of algorithms."""
