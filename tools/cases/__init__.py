"""The cases of the rules of worked steps, and problems in which they occur (`tools.certify`)."""
