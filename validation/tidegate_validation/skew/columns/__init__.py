"""What a comparison of a window with a profile looks at column by column, or across columns, beside the distance."""
