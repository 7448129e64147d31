"""What ships what is recorded to other systems, while it is recorded or afterwards."""
