"""What single methods are made of: arithmetic and pieces that are tested on their own."""
