"""What an application does with sessions besides talking to them: names, changes, takes back and copies them."""
