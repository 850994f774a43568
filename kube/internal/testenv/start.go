package testenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Required is the environment variable that, set to "required", has tests fail instead of
// skip where the programs have not been built.
const Required = "NORN_KUBE"

// Start starts a control plane that ends with the test. A test is skipped where the
// programs have not been built, unless NORN_KUBE is "required". The logs of a test that
// fails are kept, in a folder that it names.
func Start(t testing.TB, options ...Option) *Env {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane: not under -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "norn-kube-")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Run(ctx, dir, options...)
	t.Cleanup(func() { end(t, e, dir) })
	switch {
	case skips(err):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return e
}

// skips tells whether a test that met an error is skipped for it.
func skips(err error) bool {
	return errors.Is(err, ErrMissing) && os.Getenv(Required) != "required"
}

// end stops a control plane and removes its files; of a test that has failed the logs and
// the kubeconfig stay.
func end(t testing.TB, e *Env, dir string) {
	if e != nil {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}
	if os.Remove(dir) == nil { // nothing was started
		return
	}
	if !t.Failed() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		return
	}
	t.Logf("the logs of the control plane are in %s", dir)
	if err := os.RemoveAll(filepath.Join(dir, etcd)); err != nil {
		t.Error(err)
	}
}
