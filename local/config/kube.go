package config

import (
	"path/filepath"
	"strings"
)

// KubeState is the folder in which norn kube up keeps the state of a cluster and its socket,
// for whoever has such an environment; norn --kube looks there. It is empty for who has no
// home.
func KubeState(getenv func(string) string, cluster string) string {
	name := strings.NewReplacer("/", "_", ":", "_", "\x00", "_").Replace(cluster)
	if name == "" || strings.Trim(name, ".") == "" {
		name = "_"
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "norn-kube", name)
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "norn-kube", name)
	}
	return ""
}
