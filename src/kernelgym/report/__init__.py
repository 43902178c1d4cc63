"""Results turned into what people read: data first (`Row`, `Report`), rendered after."""
