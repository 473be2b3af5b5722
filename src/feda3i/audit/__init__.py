"""The audit of annotation quality: who draws larger or smaller, and how sure that is."""
