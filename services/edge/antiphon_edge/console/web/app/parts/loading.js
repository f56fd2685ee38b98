/** Loads what a view shows: when the view opens, and again when the browser is back online. */
import { useEffect } from "preact/hooks";
import { reconnections } from "../state/session.js";

/** @param {() => void | (() => void)} load Does nothing if all is loaded. @param {readonly unknown[]} inputs */
export function useLoading(load, inputs) {
  useEffect(load, [...inputs, reconnections.value]);
}
