package kube

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/norn-scheduler/norn/api/server"
)

// Connect makes the configuration of a client: that of a pod where inCluster says so, else
// the one that kubectl would use; file and context may be empty.
func Connect(inCluster bool, file, kubeContext string) (cfg *rest.Config, cluster string, err error) {
	if inCluster {
		cfg, err = rest.InClusterConfig()
		return cfg, "kubernetes", err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext})
	if cfg, err = loader.ClientConfig(); err != nil {
		return nil, "", err
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, "", err
	}
	if kubeContext == "" {
		kubeContext = raw.CurrentContext
	}
	cluster = "kubernetes"
	if c := raw.Contexts[kubeContext]; c != nil && c.Cluster != "" {
		cluster = c.Cluster
	}
	return cfg, cluster, nil
}

// Client makes a client that speaks protobuf and is not held back by a limit of its own:
// the server has one.
func Client(cfg *rest.Config) (kubernetes.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	cfg.UserAgent = "norn-kube"
	return kubernetes.NewForConfig(cfg)
}

// Serve leads a cluster, as soon as no other Norn does, and serves the API of Norn until the
// context ends.
func Serve(ctx context.Context, e *Election, opt Options, api server.Config) error {
	if api.Socket != "" {
		if err := os.MkdirAll(filepath.Dir(api.Socket), 0o700); err != nil {
			return err
		}
	}
	return e.Lead(ctx, func(ctx context.Context, origin time.Time, leads func() bool) error {
		opt.Origin, opt.Leads = origin, leads
		writing, end := context.WithCancel(context.WithoutCancel(ctx)) // what was decided is still written when it ends
		defer end()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(10*time.Second, end) })()
		d, err := Open(writing, opt)
		if err != nil {
			return err
		}
		defer d.Close()
		api.Backend = d
		srv, err := server.New(api)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		served := make(chan error, 1)
		go func() {
			served <- srv.Serve(ctx)
			stop()
		}()
		logger(opt.Log).Info("norn leads", "cluster", opt.Name, "nodes", len(d.nodes.nodes), "policy", opt.Policy.String())
		err = d.Run(ctx)
		stop()
		return errors.Join(err, <-served)
	})
}

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
