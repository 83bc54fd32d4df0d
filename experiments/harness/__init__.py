"""What all experiments share: measuring, results as files, tables, conclusions, figures, the report."""
