"""How programs are compiled, packed and divided among threads."""
