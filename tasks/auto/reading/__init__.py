"""What a person's file says of itself: which columns are meant, its rows and their labels, what is drawn of them."""
