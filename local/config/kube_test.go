package config

import "testing"

// TestKubeState: the folder of a cluster is in that of the user, whatever the cluster is called.
func TestKubeState(t *testing.T) {
	for _, c := range []struct{ xdg, home, cluster, want string }{
		{"/x", "/home/ann", "prod", "/x/norn-kube/prod"},
		{"", "/home/ann", "arn:aws:eks/prod", "/home/ann/.local/state/norn-kube/arn_aws_eks_prod"},
		{"not/absolute", "/home/ann", "..", "/home/ann/.local/state/norn-kube/_"},
		{"", "", "prod", ""},
	} {
		env := map[string]string{"XDG_STATE_HOME": c.xdg, "HOME": c.home}
		if got := KubeState(func(k string) string { return env[k] }, c.cluster); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
