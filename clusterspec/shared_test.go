package clusterspec

import (
	"os"
	"path/filepath"
	"testing"
)

// shared is a folder of the published data next to the repository. The test is
// skipped where there is none, and fails on CI.
func shared(t testing.TB, folder string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("../../shared", folder))
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err == nil {
		return dir
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("the published data are missing: %v", err)
	}
	t.Skipf("the published data are not here: %v", err)
	return ""
}
