//! Guards on a made-up sysfs and procfs.
