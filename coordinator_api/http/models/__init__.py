"""What bodies and answers may hold. Each is one model, which decodes, validates and documents."""
