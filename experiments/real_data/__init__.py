"""What the language says of real flights and real trades, beside plain Python."""
