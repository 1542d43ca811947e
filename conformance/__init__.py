"""What the conformance tests are made of; one idea per file."""
