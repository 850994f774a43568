//go:build unix

package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-scheduler/norn/local/rundir"
)

// TestMayRead: a path may be read where all folders on the way may be passed, and the file
// read, by owner, group or anybody.
func TestMayRead(t *testing.T) {
	dir := t.TempDir()
	for at := dir; at != filepath.Dir(at) && at != os.TempDir(); at = filepath.Dir(at) { // the test's own folders
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(dir, "runs")
	file, link := filepath.Join(folder, "weights"), filepath.Join(dir, "link")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("w"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	me := &rundir.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	other := &rundir.User{UID: me.UID + 4242, GID: me.GID + 4242}
	member := &rundir.User{UID: me.UID + 4242, GID: me.GID + 4242, Groups: []uint32{me.GID}}
	for _, k := range []struct {
		folder, file  os.FileMode
		other, member bool
	}{
		{0o700, 0o600, false, false}, {0o700, 0o644, false, false}, {0o755, 0o600, false, false}, {0o750, 0o640, false, true},
		{0o755, 0o644, true, true}, {0o711, 0o604, true, false}, {0o751, 0o640, false, true},
	} {
		if os.Chmod(folder, k.folder) != nil || os.Chmod(file, k.file) != nil {
			t.Fatal("chmod")
		}
		for _, path := range []string{file, link} {
			if !mayRead(nil, path) || !mayRead(me, path) {
				t.Errorf("folder %o, file %o: the owner may not read %s", k.folder, k.file, path)
			}
			if got := mayRead(other, path); got != k.other {
				t.Errorf("folder %o, file %o: another user may read %s: %v", k.folder, k.file, path, got)
			}
			if got := mayRead(member, path); got != k.member {
				t.Errorf("folder %o, file %o: a member of the group may read %s: %v", k.folder, k.file, path, got)
			}
		}
	}
	for _, path := range []string{"", "weights", filepath.Join(dir, "none")} {
		if mayRead(me, path) {
			t.Errorf("%q may be read", path)
		}
	}
}
