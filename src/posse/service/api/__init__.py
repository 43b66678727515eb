"""The HTTP interface: routes, the records of requests and answers, errors, and the way to the writer."""
