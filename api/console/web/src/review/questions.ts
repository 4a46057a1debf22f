// The questions of a new review, as they are edited and as the server takes them.
import type { Schemas } from '../api/client'

export type EditedQuestion = { text: string; kind: Schemas['Question']['kind']; min: number; max: number; choices: string }

export function newQuestion(): EditedQuestion {
  return { text: '', kind: 'scale', min: 1, max: 5, choices: '' }
}

/** Return the questions with ids: their first words, so that reports can be read, and different from each other. */
export function questionsOf(edited: EditedQuestion[]): Schemas['Question'][] {
  const taken = new Set<string>()
  return edited.map(({ text, kind, min, max, choices }, index) => {
    const words = text.toLowerCase().match(/[a-z0-9]+/g) ?? []
    const start = words.slice(0, 4).join('_').slice(0, 50)
    let questionId = /^[a-z]/.test(start) ? start : `q${index + 1}`
    if (taken.has(questionId)) questionId = `${questionId}_${index + 1}`
    taken.add(questionId)
    const names = choices.split(/[,，、]/).map((each) => each.trim()).filter(Boolean)
    return { questionId, text, kind, min: kind === 'scale' ? min : null, max: kind === 'scale' ? max : null, choices: kind === 'choice' ? names : [] }
  })
}
