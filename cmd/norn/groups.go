package main

import "github.com/spf13/cobra"

// group is verbs that norn --help lists together.
type group struct {
	id, title string
	verbs     []string
}

// groups are all groups, in the order of the help. A verb that is in none stands at the end.
func groups() []group {
	return []group{
		{"simulate", "Simulate clusters:", []string{"sim", "sweep", "tune", "plot", "explain", "policies", "policy", "train", "trace", "cluster", "reproduce", "validate"}},
		{"jobs", "Jobs on this machine:", []string{"submit", "run", "ps", "why", "logs", "attach", "cancel", "hold", "release", "requeue", "resize", "history"}},
		{"machine", "Run this machine:", []string{"up", "down", "status", "nodes", "top", "web", "events", "plan", "autotune", "use", "drain", "undrain", "reclaim", "lend", "config", "fsck", "selftest", "fidelity"}},
		{"kube", "A Kubernetes cluster:", []string{"kube"}},
		{"models", "Models:", []string{"gate", "model", "gnn"}},
		{"tools", "Tools:", []string{"docs", "completion", "version", "help"}},
	}
}

// arrange puts the verbs of norn into groups.
func arrange(cmd *cobra.Command) {
	of := map[string]string{}
	for _, g := range groups() {
		cmd.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, verb := range g.verbs {
			of[verb] = g.id
		}
	}
	for _, c := range cmd.Commands() {
		c.GroupID = of[c.Name()]
	}
	cmd.SetHelpCommandGroupID(of["help"])
	cmd.SetCompletionCommandGroupID(of["completion"])
}
