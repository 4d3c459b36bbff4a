package main

import "golang.org/x/sys/unix"

// isNetNS tells whether a network namespace is mounted at the path. Runtimes
// give DEL no path when the namespace is gone, and the file under a namespace
// stays behind when only its mount is gone.
func isNetNS(path string) bool {
	if path == "" {
		return false
	}
	var fs unix.Statfs_t
	err := unix.Statfs(path, &fs)
	if err == unix.ENOENT {
		return false
	}
	return err != nil || fs.Type == unix.NSFS_MAGIC
}
