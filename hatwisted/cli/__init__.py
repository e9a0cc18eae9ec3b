"""The command line `hatwisted`: looking at, checking and mending store folders, offline and from outside."""
