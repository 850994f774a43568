// Build builds the programs of a Kubernetes control plane that the tests of kube and
// norn-kube run against, and prints the folder in which they are:
//
//	go run ./kube/internal/testenv/build [program ...]
//
// Without arguments these are etcd, kube-apiserver and kube-controller-manager;
// kube-scheduler and kubectl may be asked for too. Programs that are there are not built
// again.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/norn-scheduler/norn/kube/internal/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	dir, err := testenv.Build(ctx, os.Args[1:]...)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
