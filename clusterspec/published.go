package clusterspec

import (
	"fmt"
	"strings"
)

// Published reads the notation in which results of published simulators name
// their clusters. The simulator matters where the same words mean different
// machines:
//
//	n8g8                        8 nodes of 8 GPUs in one rack; with 128 CPUs and 256 GB each (tiresias) or 92 and 520 (muri)
//	V100:P100:K80=2:2:2         nodes of one GPU (gavel, shockwave)
//	aws=6x4;rtx=3x8             types with nodes x GPUs (sia)
//	4x8 GPU, 24 CPU, 500 GB     nodes x GPUs, CPUs and memory of each (synergy)
//	GPU=20;CPU=640;mem=2560GiB  one node with all of it (alloxsim)
//	g300, hetero                (pai)
//	venus-15vc                  (lucid)
//
// Anything else is read as by Parse.
func Published(simulator, notation string) (*Spec, error) {
	notation = strings.TrimSpace(notation)
	switch {
	case notation == "hetero" && simulator == "pai":
		return Parse("pai-hetero")
	case notation == "venus-15vc":
		return Parse("helios-venus-lucid")
	}
	shorthand, err := translate(simulator, notation)
	if err != nil {
		return nil, fmt.Errorf("cluster %q of %s: %w", shorten(notation), simulator, err)
	}
	return Parse(shorthand)
}

// translate turns a notation into shorthand.
func translate(simulator, notation string) (string, error) {
	switch simulator {
	case "tiresias", "muri":
		if strings.HasPrefix(notation, "n") && digits(strings.Replace(notation[1:], "g", "", 1)) {
			return notation + map[string]string{"tiresias": "/128c/256GiB", "muri": "/92c/520GiB"}[simulator], nil
		}
	case "gavel", "shockwave":
		return typesAndCounts(notation)
	case "sia":
		return typesAndShapes(notation)
	case "synergy":
		if shape, rest, ok := strings.Cut(notation, " GPU, "); ok {
			cpu, memory, _ := strings.Cut(rest, " CPU, ")
			return fmt.Sprintf("%s/%sc/%s", shape, cpu, strings.TrimSpace(memory)), nil
		}
	case "alloxsim":
		if text, ok := strings.CutPrefix(notation, "GPU="); ok {
			gpus, rest, _ := strings.Cut(text, ";CPU=")
			cpu, memory, _ := strings.Cut(rest, ";mem=")
			return fmt.Sprintf("pool:%s/%sc/%s", gpus, cpu, memory), nil
		}
	}
	return notation, nil
}

// typesAndCounts reads V100:P100=2:3, nodes with one GPU each.
func typesAndCounts(notation string) (string, error) {
	types, counts, ok := strings.Cut(notation, "=")
	if !ok {
		return notation, nil
	}
	names, numbers := strings.Split(types, ":"), strings.Split(counts, ":")
	if len(names) != len(numbers) {
		return "", fmt.Errorf("%d types and %d counts", len(names), len(numbers))
	}
	for i := range names {
		names[i] = numbers[i] + "x1:" + names[i]
	}
	return strings.Join(names, "+"), nil
}

// typesAndShapes reads aws=6x4;rtx=3x8.
func typesAndShapes(notation string) (string, error) {
	if !strings.Contains(notation, "=") {
		return notation, nil
	}
	fields := strings.Split(notation, ";")
	for i, field := range fields {
		name, shape, _ := strings.Cut(field, "=")
		if !strings.Contains(shape, "x") {
			return "", fmt.Errorf("%q: write a type and nodes x GPUs, such as aws=6x4", field)
		}
		fields[i] = shape + ":" + name
	}
	return strings.Join(fields, "+"), nil
}
