//go:build unix

package local

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/norn-scheduler/norn/local/rundir"
)

// mayRead tells whether a user may read a file, or list a folder, by the
// permissions of all that lies on the way to it; nil is the user of this
// process. Symbolic links are followed. Permissions of the kernel beyond
// owners, groups and others are not counted.
func mayRead(u *rundir.User, path string) bool {
	if u == nil {
		u = &rundir.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
		groups, _ := os.Getgroups()
		for _, g := range groups {
			u.Groups = append(u.Groups, uint32(g))
		}
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil || !filepath.IsAbs(path) {
		return false
	}
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	want := os.FileMode(4)
	if info.IsDir() {
		want = 5
	}
	for permits(u, path, want) {
		if path == filepath.Dir(path) {
			return true
		}
		path, want = filepath.Dir(path), 1
	}
	return false
}

// permits tells whether a user has all of some rights, as bits of others, to a path itself.
func permits(u *rundir.User, path string, want os.FileMode) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	mode := info.Mode().Perm()
	switch {
	case u.UID == 0:
		return true
	case owner.Uid == u.UID:
		mode >>= 6
	case owner.Gid == u.GID || slices.Contains(u.Groups, owner.Gid):
		mode >>= 3
	}
	return mode&want == want
}
