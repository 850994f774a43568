package local_test

import "syscall"

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o666) }

// ownerOf is whom a file belongs to.
func ownerOf(path string) (uint32, error) {
	var st syscall.Stat_t
	err := syscall.Stat(path, &st)
	return st.Uid, err
}
