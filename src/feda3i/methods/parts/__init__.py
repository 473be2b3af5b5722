"""Parts of single methods: arithmetic and pieces that are tested on their own."""
