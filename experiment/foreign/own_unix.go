//go:build unix

package foreign

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ownAlone fails where a word of a command names a file that somebody else than root and the
// user of this process may write or replace: that user's programs would decide with the rights
// of this process. Words that name no file are left alone.
func ownAlone(words []string) error {
	for _, word := range words {
		path, err := filepath.Abs(word)
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		for _, start := range []string{path, real} { // also of a link itself
			for at := start; ; at = filepath.Dir(at) {
				if err := own(at); err != nil {
					return fmt.Errorf("%s is not started with the rights of this Norn: %w", word, err)
				}
				if at == filepath.Dir(at) {
					break
				}
			}
		}
	}
	return nil
}

// own fails where others may write a file or folder, or what is in it. In folders such as /tmp
// (mode 1777) nobody replaces what others have made.
func own(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: nobody can tell whose it is", path)
	}
	mode, group := info.Mode(), int(stat.Gid)
	switch {
	case mode.Type() == fs.ModeSymlink: // its folder says who may replace it
		return nil
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, not to root or user %d", path, stat.Uid, os.Geteuid())
	case mode&fs.ModeSticky != 0 && info.IsDir():
		return nil
	case mode.Perm()&0o002 != 0, mode.Perm()&0o020 != 0 && group != 0 && group != os.Getegid():
		return fmt.Errorf("%s may be written by others (mode %o): chmod go-w takes that back", path, mode.Perm())
	}
	return nil
}
