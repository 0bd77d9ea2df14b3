"""What all command lines share: the program `assignor`, its terminal, its options and what they print."""
