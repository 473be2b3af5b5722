"""What every room uses and nobody should write twice: files, parallel calls, memory."""
