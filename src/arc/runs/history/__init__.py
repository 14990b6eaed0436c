"""What runs have done: looked up, listed, shown, compared; read only."""
