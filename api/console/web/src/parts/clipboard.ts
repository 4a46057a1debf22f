import { t } from '../strings/index.svelte'

/** Copy a text. Throws an Error that says how else to copy it: a page without HTTPS has no clipboard. */
export async function copyText(text: string) {
  if (!navigator.clipboard) throw new Error(t().write.copyByHand)
  await navigator.clipboard.writeText(text)
}
