package testenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/internal/fileio"
)

// The programs of a control plane.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kubectl           = "kubectl"
)

// Version is that of Kubernetes in tools/go.mod.
const Version = "v1.36.3"

// Command is the command that builds what the tests need.
const Command = "go run ./kube/internal/testenv/build"

// ErrMissing says that programs of the control plane have not been built.
var ErrMissing = errors.New("programs of the control plane are missing")

// packageOf is where the main package of a program is; empty for an unknown one.
func packageOf(program string) string {
	switch program {
	case etcd:
		return "go.etcd.io/etcd/server/v3"
	case apiServer, controllerManager, scheduler, kubectl:
		return "k8s.io/kubernetes/cmd/" + program
	}
	return ""
}

// Folder is the folder of built programs: the one that NORN_KUBE_BIN names or, inside a
// clone of Norn, a folder of the user's cache for the sources and the Go version.
func Folder() (string, error) {
	if dir := os.Getenv("NORN_KUBE_BIN"); dir != "" {
		return filepath.Abs(dir)
	}
	tools, err := tools()
	if err != nil {
		return "", err
	}
	return cache(tools)
}

// cache is the folder for the programs that a module pins.
func cache(tools string) (string, error) {
	home, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(tools, name))
		if err != nil {
			return "", err
		}
		hash.Write(text)
	}
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return filepath.Join(home, "norn", "kube", hex.EncodeToString(hash.Sum(nil))[:16]), nil
}

// tools is the folder of the module that pins the programs, in the clone of Norn around
// the current folder.
func tools() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		tools := filepath.Join(dir, "kube", "internal", "testenv", "tools")
		if _, err := os.Stat(filepath.Join(tools, "go.sum")); err == nil {
			return tools, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%w: %s is in no clone of Norn: name their folder by NORN_KUBE_BIN", ErrMissing, at)
		}
	}
}

// find is the path of each program that is asked for. It fails with ErrMissing and the
// command that builds them where one is not there.
func find(programs []string) (map[string]string, error) {
	dir, err := Folder()
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, name := range programs {
		path := filepath.Join(dir, name)
		switch _, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w: %s is not in %s; %s builds them", ErrMissing, name, dir, buildCommand(programs))
		case err != nil:
			return nil, err
		}
		paths[name] = path
	}
	return paths, nil
}

// buildCommand is the command that builds programs.
func buildCommand(programs []string) string {
	for _, name := range programs {
		if name == scheduler || name == kubectl {
			return Command + " " + strings.Join(programs, " ")
		}
	}
	return Command
}

// Build builds those of the programs that are not there yet, without one etcd, API server
// and controller manager, and returns their folder. Several may build at once: one waits
// for the other. It takes some minutes where Go's build cache has nothing of them.
func Build(ctx context.Context, programs ...string) (string, error) {
	if len(programs) == 0 {
		programs = []string{etcd, apiServer, controllerManager}
	}
	module, err := tools()
	if err != nil {
		return "", err
	}
	dir, err := cache(module)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := wait(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	for _, name := range programs {
		if err := build(ctx, module, dir, name); err != nil {
			return "", fmt.Errorf("building %s: %w", name, err)
		}
	}
	return dir, nil
}

// wait locks a file once the process that has it lets it go.
func wait(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := fileio.Lock(path)
		if !errors.Is(err, fileio.ErrLocked) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// build builds a program of a module into a folder, whole or not at all, unless it is
// there.
func build(ctx context.Context, module, dir, name string) error {
	pkg := packageOf(name)
	if pkg == "" {
		return errors.New("no such program is pinned")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	partial := path + ".partial"
	const x = "-X k8s.io/component-base/version."
	minor := strings.Split(Version, ".")[1]
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", partial,
		"-ldflags", "-s -w "+x+"gitVersion="+Version+" "+x+"gitMajor=1 "+x+"gitMinor="+minor, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.Rename(partial, path)
}
