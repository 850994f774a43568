package gen

import (
	"os"
	"path/filepath"
	"testing"
)

// sharedData is the folder of the published logs next to the repository. The
// test is skipped where there is none, and fails on CI.
func sharedData(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../../shared/data")
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err == nil {
		return dir
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("the published logs are missing: %v", err)
	}
	t.Skipf("the published logs are not here: %v", err)
	return ""
}
