"""`python -m hatwisted`; and the file to give to programs that only take one that ends in .py, as spark-submit."""

from hatwisted.cli.main import main

if __name__ == "__main__":
    main(prog_name="hatwisted")
