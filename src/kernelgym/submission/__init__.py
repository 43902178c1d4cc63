"""What can be said about a candidate's source without running it."""
